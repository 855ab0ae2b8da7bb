"""The web page, which reads the API only. There is none yet."""
