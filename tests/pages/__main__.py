"""Write what in docs/ comes from elsewhere: ``python -m pages``; ``make docs`` does it first."""

from __future__ import annotations

from pages.embed import embedded, pages
from pages.sequence import PICTURE, draw

for page in pages():
    if (new := embedded(page)) != page.read_text():
        page.write_text(new)
PICTURE.write_text(draw())
