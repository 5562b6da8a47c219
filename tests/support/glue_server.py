"""AWS Glue's catalog as moto simulates it, on 127.0.0.1: `python -m support.glue_server PORT`.

Glue refuses an update of a table if somebody else has updated the table before, and Iceberg relies
on this. moto does not check it, so this module does.
"""

from __future__ import annotations

import sys
from threading import Lock
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.glue.models import GlueBackend
from moto.glue.responses import GlueResponse
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

_lock = Lock()
_update = GlueResponse.update_table


def _update_table(response: GlueResponse) -> Any:
    backend: GlueBackend = response.glue_backend
    known = response.parameters.get("VersionId")
    name = response.parameters["TableInput"]["Name"]
    with _lock:
        table = backend.get_table(response.parameters["DatabaseName"], name)
        current = table.as_dict()["VersionId"]
        if known is not None and str(known) != str(current):
            raise JsonRESTError(
                "ConcurrentModificationException", f"{name} has version {current}, not {known}"
            )
        return _update(response)


if __name__ == "__main__":
    glue: Any = GlueResponse
    glue.update_table = _update_table
    application = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True)
