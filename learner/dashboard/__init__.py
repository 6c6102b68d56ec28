"""The dashboard: runs in a browser. It subscribes to feeds, reads folders, and changes nothing."""
