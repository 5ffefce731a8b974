package licence

import (
	"strings"
	"sync"
)

// known are the common licence identifiers of SPDX's list, including deprecated ones.
var known = set(`0BSD AFL-3.0 AGPL-1.0 AGPL-3.0 AGPL-3.0-only AGPL-3.0-or-later Apache-1.1 Apache-2.0 Artistic-2.0 BSD-1-Clause
	BSD-2-Clause BSD-2-Clause-Patent BSD-3-Clause BSD-3-Clause-Clear BSD-4-Clause BSL-1.0 BUSL-1.1 BlueOak-1.0.0 CC-BY-3.0
	CC-BY-4.0 CC-BY-NC-4.0 CC-BY-NC-SA-4.0 CC-BY-ND-4.0 CC-BY-SA-3.0 CC-BY-SA-4.0 CC0-1.0 CDDL-1.0 CDDL-1.1 CECILL-2.1 ECL-2.0
	EPL-1.0 EPL-2.0 EUPL-1.1 EUPL-1.2 Elastic-2.0 GFDL-1.3-only GFDL-1.3-or-later GPL-1.0-only GPL-1.0-or-later GPL-2.0
	GPL-2.0-only GPL-2.0-or-later GPL-3.0 GPL-3.0-only GPL-3.0-or-later HPND ICU ISC LGPL-2.0-only LGPL-2.0-or-later LGPL-2.1
	LGPL-2.1-only LGPL-2.1-or-later LGPL-3.0 LGPL-3.0-only LGPL-3.0-or-later MIT MIT-0 MIT-CMU MPL-1.1 MPL-2.0 MS-PL
	MulanPSL-2.0 NCSA OFL-1.1 OSL-3.0 PSF-2.0 PostgreSQL Python-2.0 SSPL-1.0 UPL-1.0 Unicode-3.0 Unicode-DFS-2016 Unlicense W3C
	WTFPL X11 ZPL-2.1 Zlib curl libpng-2.0`)

// exceptions are the common identifiers of SPDX's list of exceptions.
var exceptions = set(
	`Autoconf-exception-3.0 Bison-exception-2.2 Classpath-exception-2.0 GCC-exception-3.1 LLVM-exception`)

// set maps the lower case of words to the words: case has no meaning in identifiers.
func set(words string) func() map[string]string {
	return sync.OnceValue(func() map[string]string {
		m := map[string]string{}
		for w := range strings.FieldsSeq(words) {
			m[strings.ToLower(w)] = w
		}
		return m
	})
}
