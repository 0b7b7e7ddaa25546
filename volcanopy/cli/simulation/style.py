"""The style sheet of the report, in the colours of the web page: light and dark, from phones to large screens."""

_LIGHT = ("#2f7d4f", "#b7791f", "#0b5cad", "#8e44ad", "#b42318", "#0f766e", "#6b7280", "#a16207")
_DARK = ("#4fae78", "#d9a441", "#7ab8f5", "#c48be0", "#ff8a7a", "#4fd1c5", "#a3adb8", "#e5b567")


def _variables(colours: tuple[str, ...]) -> str:
    return "".join(f"--c{number}:{colour};" for number, colour in enumerate(colours))


_CLASSES = "".join(
    f".line.c{number}{{stroke:var(--c{number})}}rect.c{number}{{fill:var(--c{number})}}"
    f"i.c{number},b.c{number}{{background:var(--c{number})}}"
    f"b.c{number}.dashed{{background:none;border-top:3px dashed var(--c{number})}}"
    for number in range(len(_LIGHT))
)
STYLE = f"""
:root{{color-scheme:light dark;--back:#f7f7f8;--card:#fff;--text:#1b1f24;--dim:#57606a;--line:#d5d9df;--free:#eceff3;
{_variables(_LIGHT)}}}
@media (prefers-color-scheme:dark){{:root{{--back:#14171c;--card:#1d2127;--text:#e7eaee;--dim:#a3adb8;--line:#353b44;--free:#262b32;
{_variables(_DARK)}}}}}
*{{box-sizing:border-box}}
html{{font:15px/1.45 system-ui,sans-serif;background:var(--back);color:var(--text)}}
body{{margin:0;overflow-wrap:anywhere}}
header{{padding:14px 18px 0;max-width:1800px;margin:0 auto}}
h1{{font-size:20px;margin:0}}
header p{{margin:2px 0 0;color:var(--dim)}}
main{{padding:14px 18px;max-width:1800px;margin:0 auto;display:grid;gap:14px;
grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr))}}
figure{{margin:0;min-width:0}}
.card{{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px}}
.wide{{grid-column:1/-1}}
figcaption{{font-weight:600;margin-bottom:8px}}
.note{{color:var(--dim);font-size:13px;margin:8px 0 0}}
table{{border-collapse:collapse;width:100%;font-size:13.5px}}
th,td{{padding:4px 8px 4px 0;border-bottom:1px solid var(--line);text-align:right;vertical-align:top;overflow-wrap:normal}}
th:first-child{{text-align:left;overflow-wrap:anywhere}}
tbody th{{font-weight:400}}
thead th{{color:var(--dim);font-weight:600;overflow-wrap:anywhere}}
.plot{{display:grid;grid-template-columns:auto 1fr;gap:4px 6px}}
.plot svg{{width:100%;height:200px;display:block;overflow:visible}}
.plot.tall svg{{height:420px}}
.y{{display:flex;flex-direction:column;justify-content:space-between;text-align:right}}
.y,.x{{font-size:12px;color:var(--dim);white-space:nowrap}}
.y span{{line-height:0}}
.x{{grid-column:2;display:flex;justify-content:space-between;padding-top:2px}}
.line{{fill:none;stroke-width:1.6;vector-effect:non-scaling-stroke}}
.line.dashed{{stroke-dasharray:5 4;stroke-width:1.2}}
.grid{{stroke:var(--line);vector-effect:non-scaling-stroke;fill:none}}
.legend{{display:flex;flex-wrap:wrap;gap:4px 14px;font-size:13px;color:var(--dim);margin-top:8px}}
.legend b{{display:inline-block;width:12px;height:11px;border-radius:2px;margin-right:5px;vertical-align:-1px}}
.legend b.dashed{{height:0;border-radius:0;vertical-align:4px;width:16px}}
.bars{{display:grid;grid-template-columns:minmax(70px,auto) 1fr auto;gap:3px 8px;font-size:13px;align-items:center}}
.bars .name{{color:var(--dim)}}
.bars .value{{text-align:right;white-space:nowrap}}
.bar{{background:var(--free);border-radius:3px;height:12px;overflow:hidden;display:block}}
.bar i{{display:block;height:100%}}
dl{{margin:0;font-size:13.5px;display:grid;gap:2px 12px;grid-template-columns:minmax(90px,auto) 1fr}}
dt{{font-weight:600}}
dd{{margin:0;color:var(--dim)}}
{_CLASSES}
@media (max-width:600px){{main{{padding:10px}}header{{padding:10px 10px 0}}.x span:nth-child(even){{display:none}}
dl{{grid-template-columns:1fr}}th,td{{padding-right:6px}}}}
"""
