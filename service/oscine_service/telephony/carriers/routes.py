"""Where carriers connect to."""

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from oscine_service.conversation import Calls
from oscine_service.telephony.carriers import door
from oscine_service.telephony.carriers.asterisk import Asterisk
from oscine_service.telephony.carriers.carrier import OWN_NAME
from oscine_service.telephony.carriers.plivo import Plivo
from oscine_service.telephony.carriers.telnyx import Telnyx
from oscine_service.telephony.carriers.twilio import Twilio
from oscine_service.telephony.carriers.vonage import Vonage

ROOT = "/v1/telephony/"
CARRIERS = (Twilio, Telnyx, Plivo, Vonage, Asterisk)


def routes(calls: Calls) -> list[BaseRoute]:
    def at(carrier: type[Twilio | Telnyx | Plivo | Vonage | Asterisk]) -> BaseRoute:
        async def endpoint(websocket: WebSocket) -> None:
            await door.serve(websocket, carrier(websocket.query_params.get(OWN_NAME, "")), calls)

        return WebSocketRoute(ROOT + carrier.kind, endpoint)

    return [at(carrier) for carrier in CARRIERS]
