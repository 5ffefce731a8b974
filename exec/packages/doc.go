package packages
