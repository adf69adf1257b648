"""The tables of docs/settings.md. `python -m oscine_service.config.page` prints them."""

from oscine_service.config.arguments import TITLES
from oscine_service.config.model import SECTIONS, SETTINGS
from oscine_service.config.setting import Setting


def tables() -> str:
    """Markdown: a table for each section."""
    return "\n".join(_table(section) for section in SECTIONS)


def _table(section: str) -> str:
    rows = [_row(setting) for setting in SETTINGS.values() if setting.section == section]
    return "\n".join(
        [
            f"### [{section}]: {TITLES[section]}",
            "",
            "| Setting | Values | Default | What it does |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _row(setting: Setting) -> str:
    about = setting.about
    values = ", ".join(f"`{each}`" for each in about.choices) or about.metavar.lower() or "true, false"
    return f"| `{setting.name}` | {values.replace('|', '/')} | {setting.default_text} | {about.help} |"


if __name__ == "__main__":
    print(tables())
