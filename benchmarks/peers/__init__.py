"""Other software and the methods of papers, to compare with."""
