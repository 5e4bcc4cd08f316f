"""JSON Schemas of tools in the subsets that model APIs take, and arguments back in the form of the tool."""
