"""One HTML file that shows reports and their comparison: it opens from disk and asks nothing of any network."""

from ragtrial.views.page.history_page import history_page
from ragtrial.views.page.html_page import page

__all__ = ["history_page", "page"]
