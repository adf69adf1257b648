"""What a browser is given: a page to try the service with at `/`, and at `/player/` the module that plays its speech.

Files of `page/` and `player/` are served as they are; nothing is built. docs/browser.md.
"""

from oscine_service.browser.routes import PUBLIC, routes

__all__ = ["PUBLIC", "routes"]
