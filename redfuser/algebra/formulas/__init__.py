"""Maps as formulas: reading them, what is known of their signs, writing them back."""
