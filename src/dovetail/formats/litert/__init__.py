"""TFLite files beside plans: which nodes an operator of the file stands for, and what a quantised file stores."""
