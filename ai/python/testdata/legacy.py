# A file for Python 2, half written.
__version__ = "0.1.0"
def main():
print "no block"
__category__ = "acme/legacy"
 
$ = 1
MODE = 0777
__tool_type__ = "python"
