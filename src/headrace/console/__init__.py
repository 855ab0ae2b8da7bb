"""The web page. Empty until its issue; it will read the API only."""
