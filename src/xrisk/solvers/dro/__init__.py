"""Methods for risks over single rows: distributionally robust optimisation."""
