
# rye:signed:2026-11-20T09:00:00Z:8c32baea2856eafac9618af8090e77b1c862c7817ed6855a5ef5d2a1cea8b3c5:Wl0eozhoFitnYRGDC027hnvHDA0DHhGpqUnQoGwo2g0YIyAuwCT0_1VxPlWCZeE20je2TAs3bgGKhwSDANFQCw==:7f2d9ed0b71b8e5a
__version__ = "1.0.0"
print("hi")
