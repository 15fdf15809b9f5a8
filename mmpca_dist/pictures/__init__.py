"""Parts of pages of results: words, pictures and tables; and how pictures are drawn."""
