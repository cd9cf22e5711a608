"""`python -m zenspark` is the command line."""

from zenspark.cli import run_process

if __name__ == "__main__":
    run_process()
