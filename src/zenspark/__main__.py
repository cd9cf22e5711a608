"""`python -m zenspark` is the command line."""

import sys

from zenspark.cli import main

if __name__ == "__main__":
    sys.exit(main())
