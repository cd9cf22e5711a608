"""What the configuration does to messages that enter from a neighbour or leave to one: some are kept, some changed."""
