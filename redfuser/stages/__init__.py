"""What the driver's stages do between the folders that it leads through."""
