"""The command line. Installed as the package `redfuser_cli`, so modules here import each other relatively."""
