"""`python -m pliant.master`: the program in the master pod."""

import sys

from pliant.master.main import main

sys.exit(main())
