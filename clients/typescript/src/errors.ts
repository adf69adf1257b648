/**
 * What a call may end with. `code` is stable: `invalid_input`, `unknown_voice`, `overloaded`, `unavailable`, … as
 * docs/websocket.md lists them, or `connection` where the connection was lost or closed. The message says what to do.
 */
export class OscineError extends Error {
  override readonly name = "OscineError";

  constructor(
    message: string,
    readonly code: string,
    /** When the same may be asked again, in milliseconds; 0 with another seed. Undefined where that is no use. */
    readonly retryAfterMs?: number,
  ) {
    super(message);
  }
}
