"""Independent checks of saved slates: this package imports the reference objective only."""
