"""One file per founding system: what it does differently, how it is composed, how its weights map."""
