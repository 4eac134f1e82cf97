"""Reads a stream of server-sent events with httpx-sse, and prints each event that the library yields as a line of JSON.

Argument: the URL. A stream that ends is opened again with the id of the last event, until the process is stopped.
"""

import json
import sys
import time

import httpx
import httpx_sse

last_id = ""
with httpx.Client(timeout=30) as client:
    while True:
        headers = {"Last-Event-ID": last_id} if last_id else {}
        try:
            with httpx_sse.connect_sse(client, "GET", sys.argv[1], headers=headers) as source:
                for event in source.iter_sse():
                    last_id = event.id or last_id
                    print(json.dumps({"event": event.event, "data": event.data}), flush=True)
        except httpx.HTTPError:
            pass
        # The service takes a moment to restart.
        time.sleep(0.5)
