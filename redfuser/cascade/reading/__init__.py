"""The lowered module read as definitions: the only room of the stage that imports TVM."""
