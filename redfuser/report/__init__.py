"""The fusion report: its value and schema, renderings for people, the diff of two."""
