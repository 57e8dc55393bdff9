"""Tables of scores per question, and the result files of other tools, as reports that are compared like any other."""
