"""What people install: the wheel, the image, the notebook."""
