"""Models that are trained twice: with Caffe2's own gradients, and with ctrlgrad's under Caffe2."""
