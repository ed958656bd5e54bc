"""The manual: pages in Markdown, and what is written into them from the code."""
