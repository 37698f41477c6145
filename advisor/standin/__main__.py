"""`python -m advisor.standin`: the same command without a console script."""

import sys

from advisor.standin.command import main

sys.exit(main())
