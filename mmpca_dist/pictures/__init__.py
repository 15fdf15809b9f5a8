"""What pages of results are made of: parts with words, pictures and tables; and how pictures are drawn."""
