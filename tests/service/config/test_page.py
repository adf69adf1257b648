"""The page about settings says what there is."""

from pathlib import Path

from oscine_service.config import page


def test_the_page_has_the_tables_of_the_model() -> None:
    text = (Path(__file__).parents[3] / "docs" / "settings.md").read_text()
    assert page.tables() in text, "python -m oscine_service.config.page prints what docs/settings.md should have"
