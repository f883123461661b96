"""`python -m counterpoint` is the command `counterpoint`."""

from counterpoint.cli import main

main()
