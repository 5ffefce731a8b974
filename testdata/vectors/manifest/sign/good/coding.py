#!/usr/bin/python3
# -*- coding: latin-1 -*-
# rye:signed:v2:2026-11-20T09:00:00Z:5a5bf076f3424966c41b685aecfb5fdb88f5935ceb6912c895127cda1a1007f3:Am4-cpWwy37WcmtvZjbDdtVJ7odfbQfsKfPyEV6P2mXyQmoXOsXAOWiC-ZB7ploOMZ4qfF53NmlE7BSDKa8uDA:6c31041268f471609c79f5f2dbcc38e4a4ab2f4d416109a4e09fcf50fd0f0062
x = 'é'
