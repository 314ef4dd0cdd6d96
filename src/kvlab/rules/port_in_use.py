"""The port is taken.

Symptom: "[Errno 98] ... address already in use", llama.cpp "couldn't bind HTTP server socket", Ollama "listen tcp
127.0.0.1:11434: bind: address already in use".

Cause: another process listens there: most often an earlier server that has not ended, or the system's own service
(Ollama installs one).

Do:
- see which process it is: ss -ltnp, or lsof -i :PORT
- end it, or take another port: --port
- Ollama: systemctl stop ollama ends it, OLLAMA_HOST=127.0.0.1:11435 takes another port

Source: https://github.com/ollama/ollama/issues/707 https://github.com/ollama/ollama/issues/3575
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign

_ADDRESS = re.compile(r"port: (\d+)|\('[^']*', (\d+)\)|(?:tcp|socket) \S*?:(\d+): bind|[Pp]ort (\d+)")


def _advise(case: Case, advice: Advice) -> Advice:
    found = _ADDRESS.search(case.first.line)
    port = next((group for group in found.groups() if group), None) if found else None
    if port is None:
        return advice
    return advice.replaced(
        f"another process listens on port {port}", f"see which process it is: ss -ltnp 'sport = :{port}'", drop=1
    )


RULE = Rule(
    cost="setting",
    signs=(Sign(pattern=re.compile(r"listen tcp \S+: bind: Only one usage of each socket"), engines=("ollama",)),),
    advise=_advise,
)
