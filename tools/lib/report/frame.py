# SPDX-License-Identifier: Apache-2.0
"""What every page has: its look, its head and its sections; one HTML file that is also well-formed XML."""
from xml.sax.saxutils import escape

CSS = """
:root { color-scheme: light }
body { font: 15px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; color: #1f2933;
  background: #fff; max-width: 1060px; margin: 2em auto; padding: 0 1.2em }
svg { font-family: inherit; display: block }
h1 { font-size: 1.6em; margin: 0 0 .2em } h2 { font-size: 1.2em; margin: 2em 0 .3em }
h3 { font-size: 1em; margin: 1.2em 0 .2em }
p.lead { font-size: 1.08em; margin: .3em 0 1em } p.sub, figcaption { color: #52606d }
figure { margin: .6em 0 1.6em; break-inside: avoid } figcaption { font-size: .9em; max-width: 62em }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .82em; font-variant-numeric: tabular-nums }
th, td { padding: .28em .55em; text-align: right; border-bottom: 1px solid #e3e7eb }
th { vertical-align: bottom; font-weight: 600; border-bottom: 2px solid #9aa5b1 }
th:first-child, td.name { text-align: left; white-space: nowrap }
td.name i { display: inline-block; width: .7em; height: .7em; margin-right: .45em }
td { white-space: nowrap }
tr.case td { text-align: left; font-weight: 600; background: #f5f7f9; padding-top: .6em }
tr.ours td { background: #eef7f2; font-weight: 600 } tr.note td { color: #7b8794 }
dl { font-size: .85em; display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em }
dt { font-weight: 600 } dd { margin: 0; color: #52606d }
ul.claims { list-style: none; padding: 0 } ul.claims li { margin: .2em 0 }
.ok, .fail, .open { display: inline-block; min-width: 3.2em; font-weight: 700; font-size: .8em }
.ok { color: #0b6e4f } .fail { color: #b91c1c } .open { color: #92400e }
@media print { body { margin: 0; max-width: none; font-size: 11px } details { display: block }
  h2 { break-after: avoid } .scroll { overflow: visible } table { font-size: .62em } }
"""


def figure(picture, caption):
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"


def facts(settings):
    items = "".join(f"<dt>{escape(str(key))}</dt><dd>{escape(str(value))}</dd>"
                    for key, value in settings.items())
    return f"<dl>{items}</dl>"


def page(title, lead, sections):
    """sections: (heading, content); those without content are left out."""
    body = "".join(f"<h2>{escape(name)}</h2>{content}" for name, content in sections if content)
    opening = f'<p class="lead">{escape(lead)}</p>' if lead else ""
    return ('<!DOCTYPE html>\n<html xmlns="http://www.w3.org/1999/xhtml" lang="en"><head>'
            '<meta charset="utf-8"/>'
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
            f"<title>{escape(title)}</title><style>{CSS}</style></head><body>"
            f"<h1>{escape(title)}</h1>{opening}{body}</body></html>\n")
