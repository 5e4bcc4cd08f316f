"""Protocol extensions. Each is a folder that uses public names of the layers below and can be deleted alone."""
