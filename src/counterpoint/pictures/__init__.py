"""What is drawn: small pages of HTML in notebooks, and figures of matplotlib."""
