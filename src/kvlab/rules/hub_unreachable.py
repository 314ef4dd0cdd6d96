"""The model could not be fetched from the Hub.

Symptom: "We couldn't connect to 'https://huggingface.co'", "LocalEntryNotFoundError", "Connection error, and we
cannot find the requested files in the disk cache", "429 Client Error: Too Many Requests", a read timeout of
huggingface.co.

Cause: no way to the Hub (no network in the container, a proxy, a name that does not resolve), a limit on requests, or
HF_HUB_OFFLINE=1 with an incomplete cache.

Do:
- try from inside the container: curl -I https://huggingface.co
- behind a proxy: HTTPS_PROXY; behind a mirror: HF_ENDPOINT
- fetch once elsewhere (hf download NAME) and mount the folder, then HF_HUB_OFFLINE=1
- 429: log in (HF_TOKEN), which raises the limit, and do not start many replicas at once

Source: https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"We couldn't connect to '?https?://|couldn't connect to 'https://huggingface\.co"
                r"|LocalEntryNotFoundError|we cannot find the requested files in the disk cache"
                r"|429 Client Error: Too Many Requests"
                r"|HTTPSConnectionPool\(host='huggingface\.co'(?!.*(?:Retrying in|thrown while requesting))"
                r"|dial tcp: lookup registry\.ollama\.ai"
            )
        ),
    ),
)
