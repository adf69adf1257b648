"""`python -m oscine_service.cli`: the same command where its script is not installed."""

import sys

from oscine_service.cli import main

sys.exit(main())
