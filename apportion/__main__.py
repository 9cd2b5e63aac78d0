"""`python -m apportion` is the `apportion` program."""

from apportion.cli import main

if __name__ == "__main__":
    main()
