package gen

import (
	"strings"
	"testing"
	"testing/fstest"
)

// ucd returns a tiny database of the version.
func ucd(version string) fstest.MapFS {
	file := func(name, body string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("# " + name + "-" + version + ".txt\n\n" + body)}
	}
	return fstest.MapFS{
		"extracted/DerivedGeneralCategory.txt": file("DerivedGeneralCategory",
			"0000..001F ; Cc # [32]\n0378 ; Cn\nFFFE..FFFF ; Cn\n2028 ; Zl\n2029 ; Zp\nD800..DFFF ; Cs\nE000..F8FF ; Co\n"),
		"extracted/DerivedCombiningClass.txt": file("DerivedCombiningClass",
			"0041 ; 0 #\n0300..0314 ; 230 # Mn\n2028 ; 7\n"),
		"DerivedCoreProperties.txt": file("DerivedCoreProperties", "00AD ; Default_Ignorable_Code_Point # Cf\n"),
		"PropList.txt":              file("PropList", "FFFE..FFFF ; Noncharacter_Code_Point\n"),
		"CaseFolding.txt": file("CaseFolding",
			"0041; C; 0061; # A\n0042; C; 0062; #\n0049; T; 0131; #\n00DF; F; 0073 0073; #\n0100; C; 0101; #\n0102; C; 0103; #\n1E9E; S; 00DF; #\n"),
	}
}

func TestGenerate(t *testing.T) {
	src, err := generate(ucd("1.2.3"), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`const Unicode = "1.2.3"`,
		"{0x0, 0x1f, control}, {0xad, 0xad, ignorable}, {0x300, 0x314, mark}, {0x378, 0x378, unassigned},\n\t{0x2028, 0x2029, control}, {0xd800, 0xdfff, surrogate}, {0xe000, 0xf8ff, privateUse}, {0xfffe, 0xffff, noncharacter},\n}",
		"{0x41, 0x42, 1, 32}, {0x100, 0x102, 2, 1},\n}",
		`{0xdf, "ss"},`,
	} {
		if !strings.Contains(string(src), want) {
			t.Errorf("tables lack %s:\n%s", want, src)
		}
	}
}

func TestGenerateRefuses(t *testing.T) {
	for name, spoil := range map[string]func(fstest.MapFS){
		"another version": func(m fstest.MapFS) { m["PropList.txt"] = ucd("1.2.4")["PropList.txt"] },
		"missing file":    func(m fstest.MapFS) { delete(m, "CaseFolding.txt") },
		"missing property": func(m fstest.MapFS) {
			m["PropList.txt"].Data = []byte("# PropList-1.2.3.txt\n0020 ; White_Space\n")
		},
		"no code point": func(m fstest.MapFS) {
			m["PropList.txt"].Data = []byte("# PropList-1.2.3.txt\nxyz ; Noncharacter_Code_Point\n")
		},
		"unknown status": func(m fstest.MapFS) {
			m["CaseFolding.txt"].Data = []byte("# CaseFolding-1.2.3.txt\n0041; X; 0061;\n")
		},
	} {
		m := ucd("1.2.3")
		spoil(m)
		if _, err := generate(m, "1.2.3"); err == nil {
			t.Errorf("%s: tables are generated", name)
		}
	}
}
