"""Values as TIR: expressions, vectors, element types, reads and writes."""
