# The graphs of one project, for the gateway that started this process. See ../../README.md.
