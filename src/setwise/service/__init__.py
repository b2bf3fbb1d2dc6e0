"""The service: recommendations over HTTP. The extra "serve" of setwise is needed for it."""
