"""Family: models whose weights carry noise, and answers that hold although they do."""
