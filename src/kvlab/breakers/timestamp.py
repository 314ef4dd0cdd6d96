"""A date or a time stands in the prompt.

Symptom: prompts that are alike differ in a date, a time of day or a count of seconds, most often in the first lines.

Cause: the template writes the current time into the system prompt. The tokens from there on are never those of an
earlier request, so none of them comes from the cache, however long the common text after it is.

Do:
- write the date alone where the time of day is not needed: the prefix then lives for a day
- move the line to the end of the prompt, behind all that requests have in common
- let the model ask for the time by a tool

Source: https://docs.vllm.ai/en/latest/design/prefix_caching.html
"""

from __future__ import annotations

import re

from kvlab.breakers._compare import known_by
from kvlab.core.breaker import Cause

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_DAY = r"(?:Mon|Tue|Tues|Wed|Wednes|Thu|Thur|Thurs|Fri|Sat|Satur|Sun)(?:day)?"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[AaPp]\.?[Mm]\.?)?(?:\s?(?:Z|UTC|GMT|CET|CEST)|[+-]\d{2}:?\d{2})?"
_PATTERN = re.compile(
    rf"\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?:(?:T|,?\s+){_CLOCK})?"
    rf"|(?:\b{_DAY},?\s+)?(?:\d{{1,2}}(?:st|nd|rd|th)?\s+)?\b{_MONTH}\s+\d{{1,4}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?"
    rf"(?:,?\s+(?:at\s+)?{_CLOCK})?"
    rf"|\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2,4}}(?:,?\s+{_CLOCK})?"
    rf"|{_CLOCK}"
    rf"|\b{_DAY}\b"
    r"|\b1[5-9]\d{8}(?:\.\d+|\d{3}|\d{6}|\d{9})?\b"
)

CAUSE = Cause(
    title="a date or time in the prompt",
    fix="move the line with the time to the end of the last message, or write the date alone",
    rank=30,
    skip=known_by(_PATTERN),
)
